"""Gauss-Legendre quadrature: the supports of posteriors and the grids of nodes laid there."""
