-- Finds the test files. natives.entries(path) returns "file", or "directory" and the names in it,
-- or nil and the reason.

local defaults = { "tests", "spec", "test" }

local function is_test(name)
  return name:find "_test%.lua$" or name:find "_spec%.lua$" or name:find "^test_.*%.lua$"
end

local function collect(natives, path, list)
  local kind, names = natives.entries(path)
  if kind ~= "directory" then
    return
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local below = path:gsub("/+$", "") .. "/" .. name
    if name:sub(1, 1) == "." then -- luacheck: ignore
      -- hidden
    elseif is_test(name) and natives.entries(below) == "file" then
      list[#list + 1] = below
    else
      collect(natives, below, list)
    end
  end
end

---Returns the test files, in order, each once. Raises { usage = ... } if a path does not exist, or
---if there are none.
return function(natives, paths)
  local found = {}
  local given = #paths > 0
  for _, path in ipairs(given and paths or defaults) do
    local kind, why = natives.entries(path)
    if kind == "file" then
      found[#found + 1] = path
    elseif kind == "directory" then
      collect(natives, path, found)
    elseif given then
      error({ usage = string.format("%s: %s", path, why) }, 0)
    end
  end
  local list, seen = {}, {}
  for _, path in ipairs(found) do
    if not seen[path] then
      seen[path] = true
      list[#list + 1] = path
    end
  end
  if #list == 0 then
    local where = given and table.concat(paths, ", ") or "tests, spec or test"
    error({ usage = string.format("no test files in %s: expected *_test.lua, *_spec.lua or test_*.lua", where) }, 0)
  end
  return list
end
