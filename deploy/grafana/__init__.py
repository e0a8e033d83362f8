"""The dashboards as code: `python -m deploy.grafana` writes them, a test holds the files to it.

`expressions` is the PromQL we use, as words; `panels` turns a table of charts into Grafana's
model by its own SDK; `overview` and `internals` are the tables; `pictures` draws the same panels
without Grafana.
"""
