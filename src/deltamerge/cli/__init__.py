"""The `deltamerge` command."""
