{% snapshot order_history %}
{{ config(target_schema='shop', unique_key='id', strategy='check', check_cols=['customer', 'amount'], hard_deletes='invalidate') }}
select id, customer, amount from {{ ref('raw_orders') }}
{% endsnapshot %}
