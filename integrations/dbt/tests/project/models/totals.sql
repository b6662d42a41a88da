select o.customer, sum(o.amount) as amount
from {{ ref('orders') }} o join {{ ref('paid') }} p on o.id = p.id
group by o.customer
