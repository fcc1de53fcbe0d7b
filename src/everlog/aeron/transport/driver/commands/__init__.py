"""Clients' commands: their parameters, answers and refusals."""
