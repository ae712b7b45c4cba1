// An echo server in Go.  Prints its port.
package main

import (
	"fmt"
	"net"
)

func serve(peer net.Conn) {
	defer peer.Close()
	buffer := make([]byte, 16384)
	for {
		count, err := peer.Read(buffer)
		if err != nil {
			return
		}
		if _, err := peer.Write(buffer[:count]); err != nil {
			return
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		peer, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go serve(peer)
	}
}
