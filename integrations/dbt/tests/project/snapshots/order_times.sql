{% snapshot order_times %}
{{ config(target_schema='shop', unique_key='id', strategy='timestamp', updated_at='ordered_at', hard_deletes='invalidate') }}
select id, amount, ordered_at from {{ ref('raw_orders') }}
{% endsnapshot %}
