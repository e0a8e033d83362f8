"""The connection to brokers: clients, their properties, and the meaning of their errors."""
