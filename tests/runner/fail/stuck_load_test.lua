-- Waits for ever while it is loaded.
require("orrery").async.event():wait()
