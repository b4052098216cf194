"""Pictures: the layout of graphs, plots with matplotlib, and drawings that notebooks show."""
