-- A chat that one can telnet to. Everybody reads what the others write. A reader who does not keep
-- up is sent away, and nobody waits for them.
--
--     orrery examples/chat.lua [ADDRESS]     then, in other terminals: telnet 127.0.0.1 4000
--
-- Each connection has two tasks. One reads lines; the other writes what others say, from a queue of
-- its own. So no task ever writes to two connections, and a connection that is stuck holds up only
-- the task that writes to it. The queue is bounded: it is the most that a slow reader can cost.

local orrery = require "orrery"
local async, net = orrery.async, orrery.net

local ADDRESS = ... or "127.0.0.1:4000"
local BEHIND = 64 -- messages that may wait for a reader
local LONGEST_LINE = 1000 -- bytes
local LAST_WORDS = 1000 -- milliseconds for what a member has not read yet when they leave

io.stdout:setvbuf("line")

---------------------------------------------------------------------------------------- the members

local members = {} -- by name: { name, inbox, task }

-- Says something to everybody but one member. Never waits.
local function say(except, format, ...)
  local text = format:format(...)
  print(text)
  for _, member in pairs(members) do
    if member ~= except and not member.inbox:put_nowait(text .. "\r\n") then
      member.is_slow = true
      member.task:close()
    end
  end
end

-- Leaving, however that happens: /quit, a closed window, a broken cable, a full queue.
local Member = {
  __close = function(member)
    members[member.name] = nil
    say(member, "* %s %s", member.name, member.is_slow and "was too slow" or "has left")
  end,
}

local function names()
  local list = {}
  for name in pairs(members) do
    list[#list + 1] = name
  end
  table.sort(list)
  return #list == 0 and "nobody" or table.concat(list, ", ")
end

------------------------------------------------------------------------------------- one connection

-- Returns a line without the bytes that a terminal would obey; nil at the end.
local function read_text(stream)
  local line, err = stream:read_line(LONGEST_LINE)
  if err and err.code == "EMSGSIZE" then
    stream:write("That line is too long. Goodbye.\r\n")
  end
  return line and line:gsub("%c", "")
end

-- Returns nil if the input ends before there is a name.
local function ask_name(stream)
  stream:write("Here: ", names(), ". Your name? ")
  for line in read_text, stream do
    local name = line:match("^%s*(%w+)%s*$")
    if name and #name <= 20 and not members[name] then
      return name
    end
    stream:write(members[name] and "That name is taken. " or "Letters and digits, please. ", "Your name? ")
  end
end

local function write_all(stream, inbox)
  for text in inbox do
    if not stream:write(text) then
      return
    end
  end
end

-- Passes on what a member writes, until they have had enough.
local function listen(member, stream)
  for line in read_text, stream do
    if line == "/quit" then
      member.inbox:put("Goodbye.\r\n")
      return
    elseif line ~= "" then
      say(member, "%s: %s", member.name, line)
    end
  end
end

local function talk(stream)
  local name = ask_name(stream)
  if not name then
    return
  end
  local inbox = async.queue(BEHIND)
  local member <close> = setmetatable({ name = name, inbox = inbox, task = async.current() }, Member)
  members[name] = member
  local writer = async.run("writer", write_all, stream, inbox)
  inbox:put("Welcome, " .. name .. ". /quit leaves.\r\n")
  say(member, "* %s is here", name)
  listen(member, stream)
  inbox:close() -- the writer ends when it has written the rest; for a while we wait for that
  async.move_on_after(LAST_WORDS, writer.wait, writer)
end

---------------------------------------------------------------------------------------- the server

local server = assert(net.serve(ADDRESS, talk, { max_connections = 1000, send_buffer = 16384 }))
print("chat at " .. server:address())
