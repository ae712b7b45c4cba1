/*
 * Paths of Unix sockets, opened so that no symbolic link on them is followed, whoever swaps folders
 * and links meanwhile.  Any thread.
 */
#ifndef ORR_IO_SOCKET_PATH_H
#define ORR_IO_SOCKET_PATH_H

/*
 * Opens the folder of a plain path (address_rule.h), one part at a time, and points `*name` to the
 * path's last part.  Returns a descriptor of the folder, -EACCES if a part is a symbolic link or no
 * folder, or why it cannot be opened.
 */
int socket_path_open_folder(const char *path, const char **name);

/*
 * Opens the socket at a plain path as a reference (O_PATH).  Returns its descriptor, -ECONNREFUSED
 * if it is no socket, -EACCES for a symbolic link, or why it cannot be opened.
 */
int socket_path_open(const char *path);

#endif
