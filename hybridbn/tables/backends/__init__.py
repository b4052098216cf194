"""Tables larger than memory: lazy tables that are read in passes, and the engines that read them."""

from hybridbn.registry import find_attribute


def __getattr__(name: str) -> object:
    return find_attribute(__name__, name)
