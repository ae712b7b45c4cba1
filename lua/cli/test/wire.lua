-- The records that the process of a test file sends to the process that has started it. A record is
-- texts with their lengths, so that a reader knows when a record is complete, and no text needs
-- escaping.

local wire = {}
local pack, unpack = string.pack, string.unpack

---Encodes one record: its kind and its fields, as texts.
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

---Returns a function that takes bytes as they come, and calls `each` with the fields of every
---complete record.
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
