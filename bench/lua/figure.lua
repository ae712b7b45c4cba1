-- What the benchmarks in Lua share: medians of runs that alternate, and the lines of bench.h.

local figure = {}

figure.RUNS = 9

-- In the program, `coroutine` is our version, whose coroutines can wait.  The bare one is taken
-- from the library that we run on.
function figure.bare_coroutines()
  local open = package.loadlib("liblua5.4.so.0", "luaopen_coroutine")
  return open and open() or coroutine
end

function figure.median(values)
  table.sort(values)
  return values[(#values + 1) // 2]
end

function figure.line(name, value, unit, ratio, peer)
  if peer then
    print(string.format("%-36s %10.1f %-8s %7.3f %s", name, value, unit, ratio, peer))
  else
    print(string.format("%-36s %10.1f %-8s       - -", name, value, unit))
  end
  io.flush()
end

-- Runs the functions of a list in turn; each returns its figure.  Returns the medians.
function figure.alternate(subjects)
  local values, medians = {}, {}
  for run = 1, figure.RUNS do
    for i, subject in ipairs(subjects) do
      values[i] = values[i] or {}
      collectgarbage()
      values[i][run] = subject()
    end
  end
  for i, list in ipairs(values) do
    medians[i] = figure.median(list)
  end
  return table.unpack(medians)
end

-- Prints a line for the subject and, if there is one, a line for its peer.
function figure.compare(name, unit, subject, peer_name, peer)
  local ours, theirs = figure.alternate({ subject, peer })
  figure.line(name, ours, unit, theirs and ours / theirs, peer_name)
  if peer then
    figure.line(peer_name, theirs, unit)
  end
end

return figure
