"""Entity resolution: which records describe the same customer.

`similarity.records` makes candidates of records that agree in one field. They are scored on all
fields here (`scoring`). The result is validated by a field that is not scored (`held_out`).
"""
