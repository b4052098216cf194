"""What the command line does, in pieces: where tables come from, what is learned of them, and how results appear whole or not at all."""
