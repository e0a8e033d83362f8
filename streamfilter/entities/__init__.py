"""Entity resolution: which records describe the same customer.

A joined record is one text (`joined`). Records that agree in one field are candidates
(`sketching`), and are scored on all fields (`scoring`). The result is validated by a field that is
not scored (`held_out`).
"""
