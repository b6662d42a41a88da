{{ config(materialized='ephemeral') }}
select id from {{ ref('raw_orders') }} where paid
