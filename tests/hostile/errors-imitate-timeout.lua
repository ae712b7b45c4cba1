-- Raises the text of the timeout itself, and catches it: the text is not special.
-- expect: ok
local ok, err = pcall(error, "Script execution timeout", 0)
assert(not ok and err == "Script execution timeout")
