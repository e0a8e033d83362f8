"""Edges and a judge in the simulated world: both roles of `streamfilter.cluster`."""
