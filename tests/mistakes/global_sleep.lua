-- Forgets the module.
sleep(100)
