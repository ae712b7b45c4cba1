-- A source text of megabytes, loaded over and over.
-- expect: timeout
local source = ("local a = 1 do local b = a + 2 end "):rep(180) .. "return 1"
local big = ("do " .. source:gsub("return 1", "") .. " end "):rep(300)
while true do load(big) end
