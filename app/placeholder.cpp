// Replaced by the program's parts.
