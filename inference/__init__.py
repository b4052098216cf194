"""Part of the package ``hybridbn``; import it as ``hybridbn.inference``."""

if __name__ != "hybridbn.inference":
    raise ImportError("import hybridbn.inference, not inference")
