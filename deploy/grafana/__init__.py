"""The dashboards as code: `python -m deploy.grafana` writes them, and a test compares the files.

`expressions` builds all PromQL. `panels` turns tables of charts into Grafana's model, with
Grafana's SDK. `overview` and `internals` are the tables. `pictures` draws the same panels without
Grafana.
"""
