{# These columns together name one row, and none of them is null. #}
{% test unique_together(model, columns) %}
select {{ columns | join(', ') }}, count(*) as times
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1{% for column in columns %} or {{ column }} is null{% endfor %}
{% endtest %}
