-- A table constructor of thousands of fields, made by load and run again and again.
-- expect: ok
local parts = {}
for i = 1, 1 << 12 do parts[i] = "a" .. i .. "=0," end
local source = "return {" .. table.concat(parts) .. "}"
local f = load(source)
if f then
  local kept = {}
  assert(not pcall(function()
    for i = 1, 1000 do
      kept[i] = f()
      if i % 20 == 0 then orrery.async.sleep(0) end
    end
  end))
end
