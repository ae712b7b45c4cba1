-- gsub whose replacement calls gsub, and so on: the C stack again.
-- expect: ok
local function f(s) return (string.gsub(s, ".", f)) end
local ok, err = pcall(f, "a")
assert(not ok and tostring(err):find("overflow"), err)
