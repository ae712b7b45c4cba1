-- Strings of the greatest length that is allowed, made and dropped for ever.
-- expect: timeout
while true do pcall(string.rep, "x", 8 << 20) end
