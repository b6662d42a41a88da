{#- A parameter of Spark, not a place in a text: values keep their types, and quotes in them are no SQL. -#}
{% macro deltamerge__get_binding_char() %}
  {{ return('?') }}
{% endmacro %}


{#- An incremental model's temporary view has the model's name alone, and all threads share one Spark session. -#}
{% macro deltamerge__create_temporary_view(relation, compiled_code) %}
  {% do adapter.claim_view(relation.identifier, this.schema) %}
  {{ spark__create_temporary_view(relation, compiled_code) }}
{% endmacro %}


{#- In place of dbt-spark's macro of this name, which is not dispatched: it makes a view that outlives the Spark session,
    and such a view cannot read Delta tables without delta-spark's JAR. -#}
{% macro spark_build_snapshot_staging_table(strategy, sql, target_relation) %}
  {% set name = target_relation.schema ~ '__' ~ target_relation.identifier ~ '__dbt_tmp' %}
  {% set staging = api.Relation.create(identifier=name, type='view') %}
  {% call statement('build_snapshot_staging_relation') %}
    {{ create_temporary_view(staging, snapshot_staging_table(strategy, sql, target_relation)) }}
  {% endcall %}
  {% do return(staging) %}
{% endmacro %}
