"""Part of the package ``hybridbn``; import it as ``hybridbn.structures``."""

if __name__ != "hybridbn.structures":
    raise ImportError("import hybridbn.structures, not structures")
