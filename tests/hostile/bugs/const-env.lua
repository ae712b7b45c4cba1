-- A constant _ENV, which is a number, nil or a string.
-- bug: CVE-2022-28805: wrong code, read past the end of the constants; 5.4.0 to 5.4.4
-- stock: patched by Debian (5.4.4-2): an ordinary error
-- expect: ok
for _, value in ipairs { "11", "nil", "'x'", "true", "1.5" } do
  local f = load("local _ENV <const> = " .. value .. " X = 'hi' return Y")
  assert(f == nil or not pcall(f))
end
local many = {}
for i = 1, 300 do many[i] = "local _ = " .. i .. ".5" end
local f = load("do " .. table.concat(many, " end do ") .. " end local _ENV <const> = 12345 X = Y return Z")
assert(f == nil or not pcall(f))
