"""dbt shows this version in `dbt --version`."""

version = "0.1.0"
