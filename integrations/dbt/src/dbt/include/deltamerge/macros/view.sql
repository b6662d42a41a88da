{#- dbt makes a model a view that does not say what it is. A view that outlives its Spark session cannot read Delta tables
    without delta-spark's JAR: such a model becomes a table. A model that asks for a view gets one, or the error that says why not. -#}
{% materialization view, adapter='deltamerge' %}
  {% if 'materialized' in model.unrendered_config %}
    {{ return(materialization_view_spark()) }}
  {% else %}
    {{ return(materialization_table_spark()) }}
  {% endif %}
{% endmaterialization %}
