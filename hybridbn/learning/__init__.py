"""Learning from tables with holes, and completing them; structures come in as callables or networks."""
