-- What the process of a test file tells the one that has started it: records of texts, each with its length before it,
-- so that a reader knows a whole record from the beginning of one, and no text needs escaping.

local wire = {}
local pack, unpack = string.pack, string.unpack

---One record: what it is, and its fields, as texts.
function wire.encode(...)
  local count = select("#", ...)
  local fields = { ... }
  for i = 1, count do
    fields[i] = tostring(fields[i])
  end
  return pack("<s4", pack("<B" .. ("s4"):rep(count), count, table.unpack(fields, 1, count)))
end

local function decode(body)
  local count, at = unpack("<B", body)
  local fields = {}
  for i = 1, count do
    fields[i], at = unpack("<s4", body, at)
  end
  return fields
end

---A function that is given bytes as they come, and calls `each` with the fields of every record that they complete.
function wire.decoder(each)
  local rest = ""
  return function(bytes)
    rest = rest .. bytes
    local at = 1
    while #rest - at + 1 >= 4 do
      local size = unpack("<I4", rest, at)
      if #rest - at + 1 < 4 + size then
        break
      end
      each(table.unpack(decode(rest:sub(at + 4, at + 3 + size))))
      at = at + 4 + size
    end
    rest = rest:sub(at)
  end
end

return wire
