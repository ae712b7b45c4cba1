-- Formats the text of an error for people:
--
--   orrery: script.lua:3: attempt to call a nil value (field 'slep')
--       3 | async.slep(10)
--         |       ^^^^ did you mean 'sleep'?
--   stack traceback: ...
--
-- The chunk's arguments are two C functions, `line_of(path, number)` and `nearest(word, names)`. It
-- returns a function of the report, whether it may use colours, and the known names (see
-- src/cli/names.h); that function returns the text to print.

local given = ...

local COLOURS = { bad = "\27[1;31m", strong = "\27[1m", faint = "\27[2m", hint = "\27[36m" }
local LONGEST_LINE = 160

local function escape(name)
  return (name:gsub("%p", "%%%0"))
end

---Returns the line with blanks in place of its strings and comments, so that nothing is found in
---them. A long bracket that began in an earlier line is not known of.
local function code_of(line)
  local out, at = {}, 1
  local function keep(last)
    out[#out + 1] = line:sub(at, last)
    at = last + 1
  end
  local function blank(last)
    out[#out + 1] = (" "):rep(last - at + 1)
    at = last + 1
  end
  while at <= #line do
    local mark = line:find("[\"'%-%[]", at)
    if not mark then
      keep(#line)
      break
    end
    keep(mark - 1)
    local comment, level = line:match("^(%-?%-?)%[(=*)%[", at)
    local char = line:sub(at, at)
    if level and (comment == "" or comment == "--") then
      local _, last = line:find("]" .. level .. "]", at + #comment, true)
      blank(last or #line)
    elseif line:find("^%-%-", at) then
      blank(#line)
    elseif char == '"' or char == "'" then
      local last = at + 1
      while last <= #line and line:sub(last, last) ~= char do
        last = last + (line:sub(last, last) == "\\" and 2 or 1)
      end
      blank(math.min(last, #line))
    else
      keep(at)
    end
  end
  return table.concat(out)
end

---Returns all positions of a name in a line, as a word of its own.
local function places(line, name)
  local found, at = {}, 1
  while true do
    local first, last = line:find("%f[%w_]" .. escape(name) .. "%f[^%w_]", at)
    if not first then
      return found
    end
    found[#found + 1] = first
    at = last + 1
  end
end

---Returns where in the line the name of the message is; nil if that is not certain.
local function place_of_name(line, kind, name)
  line = code_of(line)
  local found = places(line, name)
  local fit = {}
  for _, at in ipairs(found) do
    local before = line:sub(1, at - 1):match("([.:]?)%s*$")
    local wanted = kind == "method" and ":" or kind == "field" and "." or ""
    if before == wanted then
      fit[#fit + 1] = at
    end
  end
  if #fit == 1 then
    return fit[1]
  end
  return #found == 1 and found[1] or nil
end

---Returns where the token of a syntax error is; only if it occurs once.
local function place_of_token(line, token)
  if not token:find("^[\"'%[%-]") then -- the token itself may be an unfinished string
    line = code_of(line)
  end
  local first = line:find(token, 1, true)
  return first and not line:find(token, first + 1, true) and first or nil
end

---Returns the names that could have been meant by `name`.
local function candidates(names, line, kind, name)
  if kind == "global" then
    return names[""]
  elseif kind == "method" then
    local all = table.move(names[":"] or {}, 1, #(names[":"] or {}), 1, {})
    return table.move(names.string or {}, 1, #(names.string or {}), #all + 1, all)
  elseif kind ~= "field" then
    return nil
  end
  local base = line and line:match("([%a_][%w_]*)%s*%.%s*" .. escape(name) .. "%f[^%w_]")
  if base and names[base] then
    return names[base]
  end
  local all = {} -- under an unknown name, it can be any module of the API
  for _, module in ipairs(names.orrery or {}) do
    table.move(names[module] or {}, 1, #(names[module] or {}), #all + 1, all)
  end
  for module, fields in pairs(line and {} or names) do -- without the line, Lua's own names too
    if module ~= "" and module ~= ":" then
      table.move(fields, 1, #fields, #all + 1, all)
    end
  end
  return all
end

---Returns the name that was most likely meant. If a name is in the list already, it was not
---mistyped.
local function meant(list, name)
  for _, other in ipairs(list) do
    if other == name then
      return nil
    end
  end
  return given.nearest(name, list)
end

---Splits the hint off that the library has added to a message; nil if there is none.
local function split_hint(message)
  local first_line, rest = message:match("^([^\n]*)(.*)$")
  local before, hint = first_line:match("^(.* a nil value %(%a+ '[^']+'%)); (.+)$")
  if before then
    return before .. rest, hint
  end
  return message
end

---Returns what the message points at: the position in the line, the length, and what may have been
---meant.
local function point_at(message, line, names)
  local kind, name = message:match("%((%a+) '([^']+)'%)")
  if kind then
    local list = message:find("a nil value", 1, true) and candidates(names, line, kind, name)
    local near = list and meant(list, name)
    local hint = near and ("did you mean '%s'?"):format(near)
    return line and place_of_name(line, kind, name), utf8.len(name) or #name, hint
  end
  local token = message:match("near '([^\n]-)'$")
  if token and line then
    return place_of_token(line, token), utf8.len(token) or #token
  end
end

---Returns as many blanks as the text has columns; tabs stay.
local function blanks(text)
  return (text:gsub("[\128-\191]", ""):gsub("[^\t]", " "))
end

---Returns the stack without its bottom, which is always the same; nil if nothing is left of it.
local function without_bottom(stack)
  stack = stack:gsub("\n\t%[C%]: in %?%f[\n\0]", "")
  return not stack:find("^stack traceback:\ntask '[^\n]*$") and stack or nil
end

return function(report, coloured, names)
  local function paint(colour, text)
    return coloured and text ~= "" and COLOURS[colour] .. text .. "\27[0m" or text
  end

  local message, stack = report:match("^(.-)\n(stack traceback:.*)$")
  if not message then
    message, stack = report:match("^(.-)(\ntask .*)$")
    if message then
      stack = stack:sub(2)
    else
      message = report
    end
  end
  local known
  message, known = split_hint(message)
  local first_line = message:match("^[^\n]*")
  local path, number = first_line:match("^(.-):(%d+): ")
  local line = path and given.line_of(path, math.tointeger(number))
  if line and (#line > LONGEST_LINE or line:find("%c", 1) and line:find("[^\t%C]")) then
    line = nil
  end
  local at, length, hint = point_at(first_line, line, names)
  hint = known or hint

  local out = { paint("bad", "orrery: ") .. paint("strong", message) }
  hint = hint and paint("hint", hint)
  if line and line:find("%S") then
    out[#out + 1] = paint("faint", ("%5s | "):format(number)) .. line
    if at then
      local under = blanks(line:sub(1, at - 1)) .. paint("bad", ("^"):rep(length))
      out[#out + 1] = paint("faint", "      | ") .. under .. (hint and " " .. hint or "")
      hint = nil
    end
  end
  if hint then
    out[#out + 1] = "        " .. hint
  end
  stack = stack and without_bottom(stack)
  if stack then
    out[#out + 1] = paint("faint", stack)
  end
  return table.concat(out, "\n") .. "\n"
end
