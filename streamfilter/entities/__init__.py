"""Entity resolution: which records speak of the same customer, though no field need be equal.

`similarity.records` makes candidates of records that agree in one field; here they are scored on
all fields (`scoring`), and the result is judged by a field that took no part (`held_out`).
"""
