-- The script raises the text of the timeout itself, and catches it: nothing is special about the text.
-- expect: ok
local ok, err = pcall(error, "Script execution timeout", 0)
assert(not ok and err == "Script execution timeout")
