// An echo server on Node's or Bun's node:net.  Prints its port.
import { createServer } from "node:net";

const server = createServer({ noDelay: true }, (peer) => {
  peer.on("data", (data) => peer.write(data));
  peer.on("error", () => peer.destroy());
});
server.listen({ host: "127.0.0.1", port: 0, backlog: 4096 }, () => console.log(server.address().port));
