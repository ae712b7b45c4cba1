-- A long chain of __call: each callable is a table that is called through the next.
-- expect: ok
local f = function() return "end" end
for _ = 1, 300 do f = setmetatable({}, { __call = f }) end
local ok, err = pcall(f)
assert(ok and err == "end" or not ok and tostring(err):find("overflow"), err)
