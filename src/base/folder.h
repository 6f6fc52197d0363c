/* The folder that a file is in: whether it is there, and making the names in it durable. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/account.h"

/**
 * Open the folder of a path, to be closed by close().
 *
 * @return a descriptor; -ENOENT (there is none); -ENOMEM; other errors of the kernel's
 */
base_must_check int base_folder_open(struct base_account *account, const char *path);

/**
 * Make durable what names a path's folder has, as after a file there was made, renamed or removed. Waits for the drive.
 *
 * @return 0; as base_folder_open()
 */
base_must_check int base_folder_sync(struct base_account *account, const char *path);

#endif
