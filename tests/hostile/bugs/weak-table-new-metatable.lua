-- All-weak tables get new metatables while a collection is under way.
-- bug: a new metatable of a table with weak keys and values is freed in use; up to 5.4.8
-- stock: not seen to happen here; the window is small
-- expect: ok
local all = {}
for i = 1, 200 do all[i] = setmetatable({}, { __mode = "kv" }) end
for round = 1, 60 do
  for i = round % 7 + 1, 200, 7 do setmetatable(all[i], { __mode = "kv", tag = "tag" .. i, __index = { i } }) end
  for _ = 1, 3 do collectgarbage("step", 0) end
  for i = 1, 200 do assert(getmetatable(all[i]).__mode == "kv") end
end
