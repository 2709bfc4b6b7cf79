{# Every row whose columns are not null has its other side. #}
{% test joins(model, columns, to, fields) %}
select {% for column in columns %}here.{{ column }}{{ ', ' if not loop.last }}{% endfor %}
from {{ model }} here
where {% for column in columns %}here.{{ column }} is not null and {% endfor %}not exists (
  select from {{ to }} there
  where {% for column in columns %}there.{{ fields[loop.index0] }} = here.{{ column }}{{ ' and ' if not loop.last }}{% endfor %})
{% endtest %}
