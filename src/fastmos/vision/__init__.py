"""Images and captions: backbones, features of images, caption files, batches of captions."""
