"""The suffix of hybridbn's own files, whose reader and writer are in `hybridbn.formats.hbn`."""

from hybridbn.formats.hbn import load_network, save
from hybridbn.formats.networks import register_format

register_format((".hbn",), load_network, save)
