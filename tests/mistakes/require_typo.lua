-- Calls a function of the standard library that is misspelt.
print(string.fromat("%d", 5))
