-- Weak tables full of weak tables: work for the part of a collection that cannot be divided.
-- expect: timeout
local mt = { __mode = "k" }
local t = {}
while true do
  for i = 1, 5000 do
    local k = {}
    t[i] = setmetatable({ [k] = setmetatable({ [{}] = k }, mt) }, mt)
  end
  collectgarbage("step")
end
