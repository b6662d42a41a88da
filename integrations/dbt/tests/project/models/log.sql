{{ config(materialized='incremental', incremental_strategy='append') }}
select id, amount, ordered_at from {{ ref('raw_orders') }}
{% if is_incremental() %}
where ordered_at > (select max(ordered_at) from {{ this }})
{% endif %}
