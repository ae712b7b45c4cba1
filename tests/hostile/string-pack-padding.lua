-- An empty string packed into a field of two thousand million bytes.
-- expect: error .
string.pack("c2147483647", "")
