"""Learning the parameters of given arcs from tables with holes: above inference, which it asks, and below the
builders.

Doors: `available_cases`, `completion`, `em`.
"""
